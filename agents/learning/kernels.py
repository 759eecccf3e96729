"""Compiled arithmetic of small multilayer perceptrons: forward, backward, and Adam's step.

For networks as small as those of execution policies, the calls of a tensor library and its passes over memory take as long as the
arithmetic. Here one call computes all layers, a block of samples at a time, so that a block stays in the cache. Within a block the values
of a unit are contiguous, (units, BLOCK), so that SIMD instructions run over samples. All functions release the GIL, so networks can run in
threads.
"""

from typing import Any

import numpy as np

from serl.exchange.compiling import compiled

BLOCK = 256
"""Samples processed at a time."""
TILE = 4
"""Rows and columns of a matrix kept in registers."""
FAST = {"contract", "nsz", "reassoc"}
"""Sums may be reordered and fused with products; infinities and NaN are preserved."""

_inlined = compiled(nogil=True, fastmath=FAST, forceinline=True)
_compiled = compiled(nogil=True, fastmath=FAST)


@_inlined
def _multiply(out: Any, a: Any, b: Any, count: int) -> None:
    """out += a b over the first `count` columns; a (M, K), b (K, BLOCK), out (M or more, BLOCK)."""
    rows, depth = a.shape
    tiled_rows, tiled_depth = rows - rows % TILE, depth - depth % TILE
    for m in range(0, tiled_rows, TILE):
        for k in range(0, tiled_depth, TILE):
            a00, a01, a02, a03 = a[m, k], a[m, k + 1], a[m, k + 2], a[m, k + 3]
            a10, a11, a12, a13 = a[m + 1, k], a[m + 1, k + 1], a[m + 1, k + 2], a[m + 1, k + 3]
            a20, a21, a22, a23 = a[m + 2, k], a[m + 2, k + 1], a[m + 2, k + 2], a[m + 2, k + 3]
            a30, a31, a32, a33 = a[m + 3, k], a[m + 3, k + 1], a[m + 3, k + 2], a[m + 3, k + 3]
            for n in range(count):
                b0, b1, b2, b3 = b[k, n], b[k + 1, n], b[k + 2, n], b[k + 3, n]
                out[m, n] += a00 * b0 + a01 * b1 + a02 * b2 + a03 * b3
                out[m + 1, n] += a10 * b0 + a11 * b1 + a12 * b2 + a13 * b3
                out[m + 2, n] += a20 * b0 + a21 * b1 + a22 * b2 + a23 * b3
                out[m + 3, n] += a30 * b0 + a31 * b1 + a32 * b2 + a33 * b3
    for m in range(rows):
        for k in range(tiled_depth if m < tiled_rows else 0, depth):
            factor = a[m, k]
            for n in range(count):
                out[m, n] += factor * b[k, n]


@_inlined
def _dot(a: Any, b: Any, count: int) -> Any:
    total = np.float32(0)
    for n in range(count):
        total += a[n] * b[n]
    return total


@_inlined
def _multiply_transposed(out: Any, a: Any, b: Any, count: int) -> None:
    """out += a b^T over the first `count` columns; a (M or more, BLOCK), b (K, BLOCK), out (M, K)."""
    rows, columns = out.shape
    tiled_rows, tiled_columns = rows - rows % TILE, columns - columns % TILE
    for m in range(0, tiled_rows, TILE):
        for k in range(0, tiled_columns, TILE):
            s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = np.float32(0)
            s20 = s21 = s22 = s23 = s30 = s31 = s32 = s33 = np.float32(0)
            for n in range(count):
                a0, a1, a2, a3 = a[m, n], a[m + 1, n], a[m + 2, n], a[m + 3, n]
                b0, b1, b2, b3 = b[k, n], b[k + 1, n], b[k + 2, n], b[k + 3, n]
                s00, s01, s02, s03 = s00 + a0 * b0, s01 + a0 * b1, s02 + a0 * b2, s03 + a0 * b3
                s10, s11, s12, s13 = s10 + a1 * b0, s11 + a1 * b1, s12 + a1 * b2, s13 + a1 * b3
                s20, s21, s22, s23 = s20 + a2 * b0, s21 + a2 * b1, s22 + a2 * b2, s23 + a2 * b3
                s30, s31, s32, s33 = s30 + a3 * b0, s31 + a3 * b1, s32 + a3 * b2, s33 + a3 * b3
            tile = ((s00, s01, s02, s03), (s10, s11, s12, s13), (s20, s21, s22, s23), (s30, s31, s32, s33))
            for i in range(TILE):
                for j in range(TILE):
                    out[m + i, k + j] += tile[i][j]
    for m in range(rows):
        for k in range(tiled_columns if m < tiled_rows else 0, columns):
            out[m, k] += _dot(a[m], b[k], count)


@_inlined
def _tanh(x: Any) -> Any:
    """tanh to 2e-7, by the rational approximation of Eigen (generic_fast_tanh_float), which is 1 beyond 7.9."""
    f = np.float32
    if x > f(7.9):
        x = f(7.9)
    if x < f(-7.9):
        x = f(-7.9)
    s = x * x
    p = f(-2.76076847742355e-16) * s + f(2.00018790482477e-13)
    p = p * s + f(-8.60467152213735e-11)
    p = p * s + f(5.12229709037114e-08)
    p = p * s + f(1.48572235717979e-05)
    p = p * s + f(6.37261928875436e-04)
    p = p * s + f(4.89352455891786e-03)
    q = f(1.19825839466702e-06) * s + f(1.18534705686654e-04)
    q = q * s + f(2.26843463243900e-03)
    q = q * s + f(4.89352518554385e-03)
    return x * p / q


@_inlined
def _activate(values: Any, tanh: bool, count: int) -> None:
    for unit in range(values.shape[0]):
        for n in range(count):
            x = values[unit, n]
            values[unit, n] = _tanh(x) if tanh else (np.float32(0) if x < 0 else x)


@_inlined
def _activation_backward(gradients: Any, values: Any, tanh: bool, count: int) -> None:
    """Turns gradients with respect to activations into those with respect to their inputs."""
    for unit in range(values.shape[0]):
        for n in range(count):
            y = values[unit, n]
            gradients[unit, n] *= np.float32(1) - y * y if tanh else (np.float32(1) if y > 0 else np.float32(0))


@_compiled
def forward(inputs: Any, weights: Any, biases: Any, tanh: bool, activations: Any, outputs: Any) -> None:
    """Computes outputs (B, outs) from inputs (B, size) and keeps the activations of the inputs and of each layer, (blocks, units, BLOCK).

    weights, biases: a tuple of (out, in) and one of (out,). The last layer has no activation; the others have tanh, or max(0, x).
    """
    layers = len(weights)
    for block in range(activations[0].shape[0]):
        first = block * BLOCK
        count = min(BLOCK, inputs.shape[0] - first)
        block_inputs = activations[0][block]
        for n in range(count):
            for i in range(inputs.shape[1]):
                block_inputs[i, n] = inputs[first + n, i]
        for layer in range(layers):
            after = activations[layer + 1][block]
            for unit in range(after.shape[0]):
                for n in range(count):
                    after[unit, n] = biases[layer][unit]
            _multiply(after, weights[layer], activations[layer][block], count)
            if layer < layers - 1:
                _activate(after, tanh, count)
        last = activations[layers][block]
        for n in range(count):
            for i in range(outputs.shape[1]):
                outputs[first + n, i] = last[i, n]


@_compiled
def backward(output_gradients: Any, weights: Any, tanh: bool, activations: Any, scratch: Any, weight_gradients: Any, bias_gradients: Any, input_gradients: Any) -> None:  # fmt: skip
    """Backpropagates the gradients (B, outs) of a loss with respect to the outputs, using the activations of `forward`.

    Adds to weight_gradients and bias_gradients; writes input_gradients, (B, size), or (0, size) if they are not needed.
    scratch: (2, units of the largest layer, BLOCK).
    """
    layers, samples = len(weights), output_gradients.shape[0]
    for block in range(activations[0].shape[0]):
        first = block * BLOCK
        count = min(BLOCK, samples - first)
        for n in range(count):
            for i in range(output_gradients.shape[1]):
                scratch[layers % 2, i, n] = output_gradients[first + n, i]
        for layer in range(layers - 1, -1, -1):
            after, before, inputs = scratch[(layer + 1) % 2], scratch[layer % 2], activations[layer][block]
            _multiply_transposed(weight_gradients[layer], after, inputs, count)
            for unit in range(weights[layer].shape[0]):
                total = np.float32(0)
                for n in range(count):
                    total += after[unit, n]
                bias_gradients[layer][unit] += total
            if layer > 0 or input_gradients.shape[0] > 0:
                before[: inputs.shape[0]] = 0
                _multiply(before, weights[layer].T, after, count)
            if layer > 0:
                _activation_backward(before, inputs, tanh, count)
        if input_gradients.shape[0] > 0:
            for n in range(count):
                for i in range(input_gradients.shape[1]):
                    input_gradients[first + n, i] = scratch[0, i, n]


@_compiled
def norm(vector: Any) -> Any:
    """Euclidean norm."""
    return np.sqrt(_dot(vector, vector, vector.size))


@_compiled
def adam(values: Any, gradient: Any, first: Any, second: Any, scale: Any, decay_first: Any, decay_second: Any, learning_rate: Any, root_scale: Any, epsilon: Any) -> None:  # fmt: skip
    """values -= learning_rate m / (root_scale sqrt(v) + epsilon), where m and v are the decaying means of g = scale x gradient and of g².
    Sets the gradient to 0. All numbers are float32."""
    for n in range(values.size):
        g = scale * gradient[n]
        first[n] = decay_first * first[n] + (np.float32(1) - decay_first) * g
        second[n] = decay_second * second[n] + (np.float32(1) - decay_second) * g * g
        values[n] -= learning_rate * first[n] / (root_scale * np.sqrt(second[n]) + epsilon)
        gradient[n] = 0
