/* Linear layers on groups of eight samples. */
#ifndef COTERIE_LINEAR_H
#define COTERIE_LINEAR_H

#include "optimizer.h"
#include "wide_linear.h"

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
    float *y = s->out.value;
    int64_t o = 0;
#if HAS_WIDE
    if (has_wide) o = wide_linear_outputs(outputs, x, w, row, padded, b, s->is.relu, y);
#endif
#define CALL_OUTPUTS(WIDTH)                                                                      \
    for (; o + WIDTH <= outputs; o += WIDTH)                                                     \
    linear_outputs(WIDTH, x, w + o * padded, row, padded, b + o, s->is.relu, y + o * LANES)
    CALL_OUTPUTS(12);
    CALL_OUTPUTS(4);
    CALL_OUTPUTS(1);
#undef CALL_OUTPUTS
}

/* dx += Wᵀ dy over `width` outputs, from input `start` on; the first block starts from zero. */
INLINE void linear_inputs(const int width, const int first, float *dx, const float *weights,
                          int64_t row, int64_t padded_row, const float *dy, int64_t start)
{
    vec d[12];
#pragma GCC unroll 12
    for (int o = 0; o < width; o++) d[o] = load(dy + o * LANES);
    for (int64_t i = start; i < row; i++) {
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
    const int64_t row = s->row, padded = s->padded_row, outputs = s->is.outputs;
    int64_t o = 0;
#if HAS_WIDE
#define START(WIDTH, FIRST) \
    (has_wide ? wide_inputs_##WIDTH##_##FIRST(s->in.gradient, w, row, padded, dy) : 0)
#else
#define START(WIDTH, FIRST) 0
#endif
#define CALL_INPUTS(WIDTH, FIRST)                                                                \
    do {                                                                                         \
        const float *w = n->packed + s->weights + o * padded;                                    \
        const float *dy = s->out.gradient + o * LANES;                                           \
        linear_inputs(WIDTH, FIRST, s->in.gradient, w, row, padded, dy, START(WIDTH, FIRST));    \
        o += WIDTH;                                                                              \
    } while (0)
    if (outputs >= 12) CALL_INPUTS(12, 1);
    else CALL_INPUTS(1, 1);
    while (o >= 12 && o + 12 <= outputs) CALL_INPUTS(12, 0);
    while (o + 2 <= outputs) CALL_INPUTS(2, 0);
    while (o < outputs) CALL_INPUTS(1, 0);
#undef CALL_INPUTS
#undef START
}

#include "use_narrow.h"
#include "linear_steps.h"
#include "end_use.h"
#if HAS_WIDE
#include "use_wide.h"
#include "linear_steps.h"
#include "end_use.h"

WIDE_INLINE void wide_weight_rows(const int use, Network *n, const Step *s, const Update *u)
{
    for (int64_t o = 0; o < s->is.outputs; o++) {
        const int64_t done = weight_row_wide(use, n, s, u, o, 0);
        weight_row_narrow(use, n, s, u, o, done);
    }
}

WIDE void wide_weight_gradient(Network *n, const Step *s, const Update *update)
{
    const Update u = *update;
#define UPDATE_ROWS(USE) wide_weight_rows(USE, n, s, &u)
    FOR_USE(&u, UPDATE_ROWS)
#undef UPDATE_ROWS
}
#endif

INLINE void weight_rows(const int use, Network *n, const Step *s, const Update *u)
{
    for (int64_t o = 0; o < s->is.outputs; o++) weight_row_narrow(use, n, s, u, o, 0);
}

/* The gradient of the weights is added to the network's; or, when `update` is given, the optimiser
 * takes its step at once, and the gradient never goes to memory. */
static void linear_weight_gradient(Network *n, const Step *s, const Update *update)
{
    to_samples(s->in.value, n->samples, s->padded_row, s->padded_row);
    if (!update) {
        weight_rows(ADD_GRADIENT, n, s, NULL);
        return;
    }
#if HAS_WIDE
    if (has_wide) {
        wide_weight_gradient(n, s, update);
        return;
    }
#endif
    const Update u = *update;
#define UPDATE_ROWS(USE) weight_rows(USE, n, s, &u)
    FOR_USE(&u, UPDATE_ROWS)
#undef UPDATE_ROWS
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
