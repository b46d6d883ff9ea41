#!/usr/bin/env python3
"""Prints the polynomial coefficients of src/kernels/math_f64*.h (needs mpmath).

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

# --- math_f64_log.h, math_f64_power.h, math_f64_inverse.h -------------------------------------------------------------
show("log: ((atanh(s) / s - 1) / z - 1/3) / z over z = s^2",
     lambda z: ((mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z - mp.mpf(1) / 3) / z, mp.mpf(10) ** -12,
     (3 - 2 * mp.sqrt(2)) ** 2 * mp.mpf("1.002"), 8)
show("sinh: (sinh(x) - x) / x^3 over z = x^2",
     lambda z: (mp.sinh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, mp.mpf(10) ** -20, mp.mpf("0.25"), 6)
show("atan: (atan(t) - t) / t^3 over z = t^2",
     lambda z: (mp.atan(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, mp.mpf(10) ** -20, (mp.sqrt(2) - 1) ** 2 * mp.mpf("1.001"), 12)


# --- math_f64_special.h -----------------------------------------------------------------------------------------------
def erfinv_over_x(w):
    """erfinv(x) / x with x^2 = 1 - e^-w, by Newton's method on log(erfc(y) (2 - erfc(y))) = -w."""
    y = mp.sqrt(mp.log(1 + w)) * mp.mpf("0.9") if w < 5 else mp.sqrt(w - mp.log(w) / 2)
    for _ in range(60):
        c = mp.erfc(y)
        step = (mp.log(c * (2 - c)) + w) / ((2 - 2 * c) / (c * (2 - c)) * (-2 / mp.sqrt(mp.pi) * mp.exp(-y * y)))
        y -= step
        if abs(step) < mp.mpf(10) ** -50:
            break
    return y / mp.sqrt(-mp.expm1(-w))


def stirling(w):
    x = 1 / mp.sqrt(w)
    return (mp.loggamma(x) - ((x - 0.5) * mp.log(x) - x + mp.log(2 * mp.pi) / 2)) * x


def psi(w):
    x = 1 / mp.sqrt(w)
    return (mp.log(x) - 1 / (2 * x) - mp.digamma(x)) / w


far = mp.mpf("4.125")
show("erfinv(x) / x over w - 2.5, w = -log(1 - x^2) < 5", lambda v: erfinv_over_x(v + 2.5), mp.mpf("-2.499"), mp.mpf("2.51"), 10)
show("erfinv(x) / x over sqrt(w) - 4.125, w > 5", lambda v: erfinv_over_x((v + far) ** 2),
     mp.sqrt(5) - far - mp.mpf("0.01"), mp.mpf("6.08") - far, 14)
show("lgamma(2 + u) / u", lambda u: mp.loggamma(2 + u) / u, -0.5, 0.5, 21)
root = mp.findroot(mp.digamma, mp.mpf("1.46"))
show("digamma(x) / (x - root) over x - 1.5", lambda u: mp.digamma(u + 1.5) / (u + 1.5 - root), -0.5, 0.5, 22)
mp.mp.dps = 80
show("Stirling's correction over 1 / x^2, x >= 8", stirling, mp.mpf(10) ** -8, mp.mpf(1) / 64, 8)
show("digamma's correction over 1 / x^2, x >= 8", psi, mp.mpf(10) ** -8, mp.mpf(1) / 64, 8)
mp.mp.dps = 60

for name, value in (("1 / 3", mp.mpf(1) / 3), ("1 / log(2)", 1 / mp.log(2)), ("1 / log(10)", 1 / mp.log(10)),
                    ("log(2)", mp.log(2)), ("pi", mp.pi), ("pi / 4", mp.pi / 4), ("tan(pi / 8)", mp.sqrt(2) - 1),
                    ("sqrt(2)", mp.sqrt(2)), ("1 / sqrt(2 pi)", 1 / mp.sqrt(2 * mp.pi)), ("sqrt(pi)", mp.sqrt(mp.pi)),
                    ("sqrt(pi) / 2", mp.sqrt(mp.pi) / 2), ("log(pi)", mp.log(mp.pi)), ("digamma's root - 1.5", root - 1.5),
                    ("log(2 pi) / 2 - 1/2", mp.log(2 * mp.pi) / 2 - 0.5)):
    split(name, value, 2)
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
