# SPDX-License-Identifier: Apache-2.0
"""Methods and attributes: an operating system's scheduler with devices, handlers and a worker (after M. Richards)."""

IDLE, WORKER, HANDLER_A, HANDLER_B, DEVICE_A, DEVICE_B = range(6)
DEVICE_PACKET, WORK_PACKET = range(2)
PACKET_SIZE = 4


class Packet:
    def __init__(self, link, task, kind):
        self.link, self.task, self.kind = link, task, kind
        self.datum = 0
        self.data = [0] * PACKET_SIZE

    def append_to(self, queue):
        self.link = None
        if queue is None:
            return self
        last = queue
        while last.link is not None:
            last = last.link
        last.link = self
        return queue


class Task:
    def __init__(self, system, number, priority, queue, running=False):
        self.system, self.number, self.priority, self.queue = system, number, priority, queue
        self.waiting = not running
        self.held = False
        self.pending = queue is not None
        self.next = system.first
        system.first = system.tasks[number] = self

    def add_packet(self, packet, current):
        if self.queue is None:
            self.queue = packet
            self.pending = True
            if self.priority > current.priority:
                return self
        else:
            packet.append_to(self.queue)
        return current

    def is_blocked(self):
        return self.held or (not self.pending and self.waiting)

    def step(self):
        packet = None
        if self.waiting and self.pending:
            packet = self.queue
            self.queue = packet.link
            self.waiting = False
            self.pending = self.queue is not None
        return self.work(packet)

    def wait(self):
        self.waiting = True
        return self

    def hold(self):
        self.system.holds += 1
        self.held = True
        return self.next

    def release(self, number):
        task = self.system.tasks[number]
        task.held = False
        return task if task.priority > self.priority else self

    def send(self, packet):
        task = self.system.tasks[packet.task]
        self.system.sent += 1
        packet.link, packet.task = None, self.number
        return task.add_packet(packet, self)


class Idle(Task):
    def __init__(self, system, count):
        super().__init__(system, IDLE, 0, None, True)
        self.control, self.count = 1, count

    def work(self, _packet):
        self.count -= 1
        if self.count == 0:
            return self.hold()
        if self.control & 1 == 0:
            self.control //= 2
            return self.release(DEVICE_A)
        self.control = self.control // 2 ^ 0xd008
        return self.release(DEVICE_B)


class Worker(Task):
    def __init__(self, system, queue):
        super().__init__(system, WORKER, 1000, queue)
        self.destination, self.letter = HANDLER_A, 0

    def work(self, packet):
        if packet is None:
            return self.wait()
        self.destination = HANDLER_B if self.destination == HANDLER_A else HANDLER_A
        packet.task, packet.datum = self.destination, 0
        for at in range(PACKET_SIZE):
            self.letter = self.letter % 26 + 1
            packet.data[at] = 64 + self.letter
        return self.send(packet)


class Handler(Task):
    def __init__(self, system, number, priority, queue):
        super().__init__(system, number, priority, queue)
        self.work_in = self.device_in = None

    def work(self, packet):
        if packet is not None:
            if packet.kind == WORK_PACKET:
                self.work_in = packet.append_to(self.work_in)
            else:
                self.device_in = packet.append_to(self.device_in)
        work = self.work_in
        if work is None:
            return self.wait()
        if work.datum >= PACKET_SIZE:
            self.work_in = work.link
            return self.send(work)
        device = self.device_in
        if device is None:
            return self.wait()
        self.device_in = device.link
        device.datum = work.data[work.datum]
        work.datum += 1
        return self.send(device)


class Device(Task):
    def __init__(self, system, number, priority):
        super().__init__(system, number, priority, None)
        self.held_packet = None

    def work(self, packet):
        if packet is None:
            packet, self.held_packet = self.held_packet, None
            return self.wait() if packet is None else self.send(packet)
        self.held_packet = packet
        return self.hold()


class System:
    def __init__(self):
        self.first, self.tasks = None, [None] * 6
        self.holds = self.sent = 0

    def schedule(self):
        task = self.first
        while task is not None:
            task = task.next if task.is_blocked() else task.step()


def packets(count, task, kind):
    queue = None
    for _ in range(count):
        queue = Packet(queue, task, kind)
    return queue


def run():
    system = System()
    Idle(system, 4000)
    Worker(system, packets(2, 0, WORK_PACKET))
    Handler(system, HANDLER_A, 2000, packets(3, DEVICE_A, DEVICE_PACKET))
    Handler(system, HANDLER_B, 3000, packets(3, DEVICE_B, DEVICE_PACKET))
    Device(system, DEVICE_A, 4000)
    Device(system, DEVICE_B, 5000)
    system.schedule()
    return [system.holds, system.sent]
