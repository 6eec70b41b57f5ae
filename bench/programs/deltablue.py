# SPDX-License-Identifier: Apache-2.0
"""Many small objects: an incremental solver of one-way constraints with strengths (after DeltaBlue)."""

REQUIRED, STRONG, MEDIUM, WEAK, WEAKEST = range(5)  # less is stronger


class Variable:
    def __init__(self, value=0):
        self.value, self.constraints, self.by = value, [], None
        self.mark, self.strength, self.stay = 0, WEAKEST, True


class Constraint:
    """`target` is computed from the others, whichever of the variables is weakest."""

    def __init__(self, solver, strength, variables):
        self.strength, self.variables, self.target = strength, variables, None
        for variable in variables:
            variable.constraints.append(self)
        solver.incremental_add(self)

    def choose(self, mark):
        self.target = None
        best = None
        for variable in self.variables:
            if variable.mark != mark and (best is None or variable.strength > best.strength):
                best = variable
        if best is not None and best.strength > self.strength:
            self.target = best

    def inputs(self):
        return [variable for variable in self.variables if variable is not self.target]

    def inputs_known(self, mark):
        return all(variable.mark == mark or variable.stay or variable.by is None for variable in self.inputs())

    def recalculate(self):
        target, inputs = self.target, self.inputs()
        target.strength = max([self.strength, *(variable.strength for variable in inputs)])
        target.stay = self.is_fixed() and all(variable.stay for variable in inputs)
        if target.stay:
            self.execute()

    def is_fixed(self):
        return True

    def execute(self):
        pass


class Stay(Constraint):
    pass


class Edit(Constraint):
    def is_fixed(self):
        return False


class Equal(Constraint):
    def execute(self):
        one, other = self.variables
        self.target.value = (other if self.target is one else one).value


class Scale(Constraint):
    """destination = source * scale + offset"""

    def execute(self):
        source, scale, offset, destination = self.variables
        if self.target is destination:
            destination.value = source.value * scale.value + offset.value
        else:
            source.value = (destination.value - offset.value) // scale.value


class Solver:
    def __init__(self):
        self.mark = 0

    def incremental_add(self, constraint):
        self.mark += 1
        overridden = self.satisfy(constraint)
        while overridden is not None:
            overridden = self.satisfy(overridden)

    def satisfy(self, constraint):
        constraint.choose(self.mark)
        if constraint.target is None:
            return None
        for variable in constraint.inputs():
            variable.mark = self.mark
        target = constraint.target
        overridden = target.by
        if overridden is not None:
            overridden.target = None
        target.by = constraint
        self.propagate(constraint)
        target.mark = self.mark
        return overridden

    def propagate(self, constraint):
        pending = [constraint]
        while pending:
            current = pending.pop()
            current.recalculate()
            pending += self.consumers(current.target)

    def consumers(self, variable):
        return [each for each in variable.constraints if each.target is not None and each is not variable.by]

    def incremental_remove(self, constraint):
        out = constraint.target
        for variable in constraint.variables:
            variable.constraints.remove(constraint)
        if out is None:
            return
        out.by, out.strength, out.stay = None, WEAKEST, True
        unsatisfied, pending = [], [out]
        while pending:
            variable = pending.pop()
            unsatisfied += [each for each in variable.constraints if each.target is None]
            for each in self.consumers(variable):
                each.recalculate()
                pending.append(each.target)
        for each in sorted(unsatisfied, key=lambda item: item.strength):
            self.incremental_add(each)

    def plan(self, constraints):
        self.mark += 1
        steps, pending = [], list(constraints)
        while pending:
            current = pending.pop()
            if current.target.mark != self.mark and current.inputs_known(self.mark):
                steps.append(current)
                current.target.mark = self.mark
                pending += self.consumers(current.target)
        return steps


def change(solver, variable, values):
    edit = Edit(solver, STRONG, [variable])
    plan = solver.plan([edit])
    for value in values:
        variable.value = value
        for step in plan:
            step.execute()
    solver.incremental_remove(edit)


def chain(length):
    solver = Solver()
    variables = [Variable() for _ in range(length + 1)]
    for one, other in zip(variables, variables[1:]):
        Equal(solver, REQUIRED, [one, other])
    Stay(solver, WEAK, [variables[-1]])
    change(solver, variables[0], range(40))
    return variables[-1].value


def projection(length):
    solver = Solver()
    scale, offset = Variable(10), Variable(1000)
    pairs = [(Variable(number), Variable()) for number in range(length)]
    for source, destination in pairs:
        Stay(solver, WEAK, [source])
        Stay(solver, WEAK, [scale])
        Stay(solver, WEAK, [offset])
        Scale(solver, REQUIRED, [source, scale, offset, destination])
    change(solver, pairs[0][0], range(20))
    return sum(destination.value for _, destination in pairs)


def run():
    return [chain(300), projection(60)]
