/* Linear layers on groups of eight samples. */
#ifndef COTERIE_LINEAR_H
#define COTERIE_LINEAR_H

#include "optimizer.h"

/* y = W x + b for `width` outputs, kept in registers: x (row, 8), W (width, padded_row). */
INLINE void linear_outputs(const int width, const float *x, const float *weights, int64_t row,
                           int64_t padded_row, const float *biases, int relu, float *y)
{
    vec sum[12];
#pragma GCC unroll 12
    for (int o = 0; o < width; o++) sum[o] = all(biases[o]);
    for (int64_t i = 0; i < row; i++) {
        const vec xi = load(x + i * LANES);
#pragma GCC unroll 12
        for (int o = 0; o < width; o++) sum[o] += xi * all(weights[o * padded_row + i]);
    }
#pragma GCC unroll 12
    for (int o = 0; o < width; o++) store(y + o * LANES, relu ? larger(all(0), sum[o]) : sum[o]);
}

static void linear_forward(const Network *n, const Step *s)
{
    const float *x = s->in.value, *w = n->packed + s->weights, *b = n->packed + s->biases;
    const int64_t row = s->row, padded = s->padded_row, outputs = s->is.outputs;
    int64_t o = 0;
    for (; o + 12 <= outputs; o += 12)
        linear_outputs(12, x, w + o * padded, row, padded, b + o, s->is.relu,
                       s->out.value + o * LANES);
    for (; o + 4 <= outputs; o += 4)
        linear_outputs(4, x, w + o * padded, row, padded, b + o, s->is.relu,
                       s->out.value + o * LANES);
    for (; o < outputs; o++)
        linear_outputs(1, x, w + o * padded, row, padded, b + o, s->is.relu,
                       s->out.value + o * LANES);
}

/* dx += Wᵀ dy over `width` outputs; the first block starts from zero. */
INLINE void linear_inputs(const int width, const int first, float *dx, const float *weights,
                          int64_t row, int64_t padded_row, const float *dy)
{
    vec d[12];
#pragma GCC unroll 12
    for (int o = 0; o < width; o++) d[o] = load(dy + o * LANES);
    for (int64_t i = 0; i < row; i++) {
        vec even = first ? all(0) : load(dx + i * LANES), odd = all(0);
#pragma GCC unroll 12
        for (int o = 0; o < width; o++) {
            const vec product = d[o] * all(weights[o * padded_row + i]);
            if (o & 1) odd += product;
            else even += product;
        }
        store(dx + i * LANES, even + odd);
    }
}

static void linear_input_gradient(const Network *n, const Step *s)
{
    const float *w = n->packed + s->weights, *dy = s->out.gradient;
    const int64_t row = s->row, padded = s->padded_row, outputs = s->is.outputs;
    float *dx = s->in.gradient;
    int64_t o = 0;
    if (outputs >= 12) {
        linear_inputs(12, 1, dx, w, row, padded, dy);
        for (o = 12; o + 12 <= outputs; o += 12)
            linear_inputs(12, 0, dx, w + o * padded, row, padded, dy + o * LANES);
    } else {
        linear_inputs(1, 1, dx, w, row, padded, dy);
        o = 1;
    }
    for (; o + 2 <= outputs; o += 2)
        linear_inputs(2, 0, dx, w + o * padded, row, padded, dy + o * LANES);
    for (; o < outputs; o++)
        linear_inputs(1, 0, dx, w + o * padded, row, padded, dy + o * LANES);
}

enum After { ADD_GRADIENT, UPDATE, UPDATE_PLAIN_ADAM };

/* dW = dy xᵀ, row by row; `after` (constant) selects how the result is used. */
INLINE void weight_rows(const int after, Network *n, const Step *s, const Update *u)
{
    const int64_t padded = s->padded_row;
    const float *x = n->samples, *dy = s->out.gradient;
    for (int64_t o = 0; o < s->is.outputs; o++) {
        const int64_t at = s->weights + o * padded;
        float *gradient = n->gradient + at, *packed = n->packed + at;
        float *first = n->first_moment + at, *second = n->second_moment + at;
        vec d[LANES];
        for (int b = 0; b < LANES; b++) d[b] = all(dy[o * LANES + b]);
        for (int64_t i = 0; i < padded; i += LANES) {
            vec even = d[0] * load(x + i), odd = d[1] * load(x + padded + i);
#pragma GCC unroll 4
            for (int b = 2; b < LANES; b += 2) {
                even += d[b] * load(x + b * padded + i);
                odd += d[b + 1] * load(x + (b + 1) * padded + i);
            }
            const vec g = even + odd;
            if (after == ADD_GRADIENT) store(gradient + i, load(gradient + i) + g);
            else
                update_vector(after == UPDATE_PLAIN_ADAM, u, packed + i, first + i, second + i, g);
        }
    }
}

/* The gradient of the weights is added to the network's; or, when `update` is given, the optimiser
 * takes its step at once, and the gradient never goes to memory. */
static void linear_weight_gradient(Network *n, const Step *s, const Update *update)
{
    to_samples(s->in.value, 1, n->samples, s->padded_row, s->padded_row);
    if (!update) {
        weight_rows(ADD_GRADIENT, n, s, NULL);
        return;
    }
    const Update u = *update;
    if (is_plain_adam(&u)) weight_rows(UPDATE_PLAIN_ADAM, n, s, &u);
    else weight_rows(UPDATE, n, s, &u);
}

static void linear_bias_gradient(Network *n, const Step *s)
{
    for (int64_t o = 0; o < s->is.outputs; o++) {
        float sum = 0;
        for (int b = 0; b < LANES; b++) sum += s->out.gradient[o * LANES + b];
        n->gradient[s->biases + o] += sum;
    }
}

#endif
