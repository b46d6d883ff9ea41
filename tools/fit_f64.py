#!/usr/bin/env python3
"""Prints the polynomial coefficients of src/kernels/math_f64.h (needs mpmath).

Each polynomial interpolates its function at Chebyshev nodes in 60 digits, which is within a small factor of the
minimax error; the degree leaves a few bits of margin below 2^-53. Coefficients are rounded to double one by one; the rest is
what rounding lost.
"""
import struct
import mpmath as mp

mp.mp.dps = 60


def chebyshev_fit(function, low, high, degree):
    """Coefficients, lowest first, of the interpolant of `function` on [low, high], and its largest relative error."""
    n = degree + 1
    middle, half = (low + high) / 2, (high - low) / 2
    nodes = [middle + half * mp.cos(mp.pi * (2 * i + 1) / (2 * n)) for i in range(n)]
    matrix = mp.matrix(n, n)
    values = mp.matrix(n, 1)
    for i, x in enumerate(nodes):
        values[i] = function(x)
        for j in range(n):
            matrix[i, j] = x**j
    solved = mp.lu_solve(matrix, values)
    coefficients = [solved[i] for i in range(n)]
    worst = mp.mpf(0)
    for i in range(400):
        x = low + (high - low) * (mp.mpf(i) + mp.mpf("0.5")) / 400
        exact = function(x)
        worst = max(worst, abs(mp.polyval(coefficients[::-1], x) / exact - 1))
    return coefficients, worst


def bits(value):
    return "0x%016x" % struct.unpack("<Q", struct.pack("<d", float(value)))[0]


def show(name, function, low, high, degree):
    coefficients, worst = chebyshev_fit(function, mp.mpf(low), mp.mpf(high), degree)
    print(f"{name}: degree {degree}, relative error 2^{float(mp.log(worst, 2)):.1f}")
    for c in reversed(coefficients):
        print(f"  {bits(c)}  {float(c):.17g}  rest {bits(c - mp.mpf(float(c)))}  {float(c - mp.mpf(float(c))):.9g}")


def split(name, value, parts):
    print(name)
    for _ in range(parts):
        print(f"  {bits(value)}  {float(value):.17g}")
        value -= mp.mpf(float(value))


tiny = mp.mpf(2) ** -60
show("exp: (e^r - 1 - r) / r^2", lambda r: mp.hyp1f1(1, 3, r) / 2, -0.3467, 0.3467, 10)
show("log: (2 atanh(s) - 2 s) / s^3 over z = s^2",
     lambda z: (2 * mp.atanh(mp.sqrt(z)) - 2 * mp.sqrt(z)) / mp.sqrt(z) ** 3, mp.mpf(10) ** -20, (3 - 2 * mp.sqrt(2)) ** 2 * mp.mpf("1.002"), 7)
show("tanh: (tanh(x) - x) / x^3 over z = x^2",
     lambda z: (mp.tanh(mp.sqrt(z)) - mp.sqrt(z)) / mp.sqrt(z) ** 3, mp.mpf(10) ** -20, mp.mpf("0.5") ** 2, 10)
show("erf: erf(x) / x - 1 over z = x^2",
     lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, mp.mpf(10) ** -20, mp.mpf("0.5") ** 2, 9)
quarter = mp.mpf("0.7855") ** 2
show("sin: (sin(x) - x) / x^3 over z = x^2",
     lambda z: (mp.sin(mp.sqrt(z)) - mp.sqrt(z)) / mp.sqrt(z) ** 3, mp.mpf(10) ** -20, quarter, 6)
show("cos: (cos(x) - 1 + x^2 / 2) / x^4 over z = x^2",
     lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, mp.mpf(10) ** -20, quarter, 6)


def phi(t, k=mp.mpf(3)):
    a = k * (1 + t) / (1 - t)
    return mp.erfc(a / mp.sqrt(2)) / 2 * mp.exp(a * a / 2) * (a + k)


show("Phi(-a) e^(a^2/2) (a + 3) over t = (a - 3) / (a + 3), a in [0, 39]", phi, -1, mp.mpf(36) / 42, 26)
ln2 = mp.log(2)
high = mp.floor(ln2 * 2**32) / 2**32
print("ln2: 32 bits, rest", bits(high), float(high), bits(ln2 - high), float(ln2 - high))
print("log2(e)", bits(1 / ln2), float(1 / ln2))
split("pi / 2", mp.pi / 2, 3)
print("2 / pi", bits(2 / mp.pi), float(2 / mp.pi))
print("sqrt(2)", bits(mp.sqrt(2)))
mp.mp.dps = 420
words = int(mp.floor(2 / mp.pi * mp.mpf(2) ** (64 * 20)))
print("2 / pi in 64-bit words")
for i in range(20):
    print("  0x%016x" % ((words >> (64 * (19 - i))) & (2**64 - 1)))
