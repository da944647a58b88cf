/* Models between torch's order and the kernels'. */
#ifndef COTERIE_PACKING_H
#define COTERIE_PACKING_H

#include "plan.h"

/* Parameters in rows. The values of a packed row follow by spot (kernel column, or position) and
 * within it by channel; torch has channels outermost. */
typedef struct {
    int64_t rows, spots, channels;
    int64_t apart;                 /* how far the channels of one spot lie apart in torch's order */
} Order;

static Order order_of(const Step *s)
{
    const int64_t channels = s->in.channels;
    if (s->is.kind == EMBEDDING) return (Order){s->is.count, 1, s->row, 1};
    Order o = {s->is.outputs, s->row / channels, channels, s->row / channels};
    if (is_normalization(s)) o.rows = 1;
    if (s->is.kind == CONVOLUTION) {
        o.rows = s->is.outputs * (int64_t)s->is.kernel[0];
        o.apart = s->full[0] * s->full[1];
    }
    return o;
}

/* Where packed row `r` begins in torch's order, from the start of the weights. */
INLINE int64_t torch_row(const Step *s, int64_t r)
{
    if (s->is.kind != CONVOLUTION) return r * s->row;
    const int64_t output = r / s->is.kernel[0], y = r % s->is.kernel[0] + s->skipped[0];
    return (output * s->in.channels * s->full[0] + y) * s->full[1] + s->skipped[1];
}

static void pack_rows(const Step *s, const float *model, float *packed)
{
    const Order o = order_of(s);
    for (int64_t r = 0; r < o.rows; r++) {
        float *to = packed + r * s->padded_row;
        const float *from = model + torch_row(s, r);
        for (int64_t spot = 0; spot < o.spots; spot++)
            for (int64_t c = 0; c < o.channels; c++)
                to[spot * o.channels + c] = from[c * o.apart + spot];
    }
}

static void unpack_rows(const Step *s, const float *packed, float *model)
{
    const Order o = order_of(s);
    for (int64_t r = 0; r < o.rows; r++) {
        const float *from = packed + r * s->padded_row;
        float *to = model + torch_row(s, r);
        for (int64_t spot = 0; spot < o.spots; spot++)
            for (int64_t c = 0; c < o.channels; c++)
                to[c * o.apart + spot] = from[spot * o.channels + c];
    }
}

static void pack_normalization(const Step *s, const float *model, float *packed)
{
    if (s->is.weight >= 0) pack_rows(s, model + s->is.weight, packed + s->weights);
    else
        for (int64_t f = 0; f < s->row; f++) packed[s->weights + f] = 1;
    if (s->is.bias >= 0) pack_rows(s, model + s->is.bias, packed + s->biases);
    if (s->is.kind != BATCH_NORM) return;
    pack_rows(s, model + s->is.mean, packed + s->running);
    pack_rows(s, model + s->is.variance, packed + s->running + s->padded_row);
}

static void unpack_normalization(const Step *s, const float *packed, float *model)
{
    if (s->is.weight >= 0) unpack_rows(s, packed + s->weights, model + s->is.weight);
    if (s->is.bias >= 0) unpack_rows(s, packed + s->biases, model + s->is.bias);
    if (s->is.kind != BATCH_NORM) return;
    unpack_rows(s, packed + s->running, model + s->is.mean);
    unpack_rows(s, packed + s->running + s->padded_row, model + s->is.variance);
}

/* Bring a model from torch's order into the kernels'. */
static void pack(Network *n, const float *model)
{
    /* Padding too: a model that diverged may have left NaN there. */
    memset(n->packed, 0, sizeof(float) * (size_t)n->num_packed);
    for (int32_t i = 0; i < n->num_steps; i++) {
        const Step *s = &n->steps[i];
        if (is_normalization(s)) pack_normalization(s, model, n->packed);
        if (is_normalization(s) || s->num_weights == 0) continue;
        pack_rows(s, model + s->is.weight, n->packed + s->weights);
        for (int64_t o = 0; o < s->is.outputs && s->is.bias >= 0; o++)
            n->packed[s->biases + o] = model[s->is.bias + o];
    }
}

/* Bring packed values (parameters or gradients) back into torch's order. */
static void unpack(const Network *n, const float *packed, float *model)
{
    for (int32_t i = 0; i < n->num_steps; i++) {
        const Step *s = &n->steps[i];
        if (is_normalization(s)) unpack_normalization(s, packed, model);
        if (is_normalization(s) || s->num_weights == 0) continue;
        unpack_rows(s, packed + s->weights, model + s->is.weight);
        for (int64_t o = 0; o < s->is.outputs && s->is.bias >= 0; o++)
            model[s->is.bias + o] = packed[s->biases + o];
    }
}

#endif
