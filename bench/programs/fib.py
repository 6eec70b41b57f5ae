# SPDX-License-Identifier: Apache-2.0
"""Calls: Fibonacci numbers by recursion."""


def fib(number):
    return number if number < 2 else fib(number - 1) + fib(number - 2)


def run():
    return fib(25)
