/* Convolutions backward, one sample at a time through all convolutions that follow each other.
 *
 * Only the maxima of pooling windows with a live ReLU carry a gradient: they are compressed to
 * lists, and each entry adds one kernel-sized patch. What one sample needs fits the nearest caches,
 * and its gradient goes from convolution to convolution without a change of layout.
 */
#ifndef COTERIE_CONVOLUTION_GRADIENT_H
#define COTERIE_CONVOLUTION_GRADIENT_H

#include "lists.h"
#include "patches.h"

/* The gradients of a sample's outputs as (position, channel) without the border, zero where the ReLU
 * is dead. */
static void live_gradients(Network *n, const Step *s, const float *value, const float *gradient)
{
    const int64_t count = s->out.width * s->out.channels;
    for (int64_t y = 0; y < s->out.height; y++) {
        const int64_t from = place_of(&s->out, y, 0), to = y * count;
        for (int64_t i = 0; i < count; i += LANES) {
            const vec g = load(gradient + from + i);
            /* Not value > 0: the gradient of a NaN is kept, so that divergence is seen. */
            const ints dead = (ints)(load(value + from + i) <= all(0));
            store(n->live + to + i, s->is.relu ? choose(dead, all(0), g) : g);
        }
    }
    memset(n->live + s->out.height * count, 0, sizeof(float) * (size_t)(WIDE_LANES * s->out.channels));
}

/* dW and db of one sample: for each channel, the positions with a gradient pick patches of x. */
static void weight_gradient(Network *n, const Step *s, const uint8_t *window, const float *x)
{
    const int64_t channels = s->out.channels, next = s->is.kernel[0] * s->padded_row;
    const int64_t in_line = padded_width(&s->in) * s->in.channels;
    const int64_t room = rounded_up(s->out.height * s->out.width) + LANES;
    const Pieces pieces = pieces_of(s->is.kernel[0], s->padded_row);
    for (int64_t o = 0; o < channels; o += LANES) {
        int64_t counts[LANES];
        const vec sum = lists_of_positions(n, s, window, o, room, counts);
        for (int c = 0; c < LANES && o + c < channels; c++) {
            if (s->is.bias >= 0) n->gradient[s->biases + o + c] += sum[c];
            add_kernel(&pieces, n->gradient + s->weights + (o + c) * next, s->padded_row, x, in_line,
                       n->list_offsets + c * room, n->list_values + c * room, counts[c]);
        }
    }
}

/* dx of one sample: for each position, the channels whose maximum was at a place of its window,
 * and has a gradient, pick kernels to add there. */
static void input_gradient(Network *n, const Step *s, const uint8_t *window, float *dx)
{
    const int64_t room = rounded_up(s->out.channels) + LANES;
    const int64_t in_line = padded_width(&s->in) * s->in.channels;
    const Pieces pieces = pieces_of(s->is.kernel[0], s->padded_row);
    int32_t offset[WINDOW];
    window_offsets(s, offset);
    memset(dx, 0, sizeof(float) * (size_t)rounded_up(num_values(&s->in)));
    for (int64_t p = 0; p < s->out.height * s->out.width; p++) {
        int64_t counts[WINDOW];
        lists_of_channels(n, s, window, p, room, counts);
        for (int d = 0; d < WINDOW; d++)
            if (counts[d])
                add_kernel(&pieces, dx + s->bases[p] + offset[d], in_line,
                           n->packed + s->weights, s->padded_row, n->list_offsets + d * room,
                           n->list_values + d * room, counts[d]);
    }
}

/* Padding of kernel rows gathered garbage from neighbouring pixels: it stays zero. */
static void clear_padding(Network *n, const Step *s)
{
    for (int64_t r = 0; r < s->is.outputs * s->is.kernel[0]; r++)
        for (int64_t j = s->row; j < s->padded_row; j++)
            n->gradient[s->weights + r * s->padded_row + j] = 0;
}

/* Bring what the steps computed from lanes to samples. */
static void spread_steps(Network *n, const Step *first, const Step *last)
{
    for (const Step *s = first; s <= last; s++) {
        const int64_t size = rounded_up(num_values(&s->in));
        const int64_t count = s->out.height * s->out.width * s->out.channels;
        to_samples(s->in.value, s->inputs, size, size);
        if (s->is.pool == 2) bytes_to_samples(s->window, s->windows, rounded_up(count));
    }
    const int64_t size = rounded_up(num_values(&last->out));
    to_samples(last->out.value, n->values, size, size);
    to_samples(last->out.gradient, n->gradients, size, size);
}

/* Add the gradients of convolutions that follow each other, `first` to `last`. */
static void convolutions_backward(Network *n, const Step *first, const Step *last, int num_samples,
                                  int with_inputs)
{
    const int64_t in_size = rounded_up(num_values(&first->in));
    const int64_t out_size = rounded_up(num_values(&last->out));
    spread_steps(n, first, last);
    for (int b = 0; b < num_samples; b++) {
        const float *value = n->values + b * out_size, *gradient = n->gradients + b * out_size;
        for (const Step *s = last; s >= first; s--) {
            const int64_t count = rounded_up(s->out.height * s->out.width * s->out.channels);
            const float *x = s->inputs + b * rounded_up(num_values(&s->in));
            const uint8_t *window = s->windows + b * count;
            float *dx = s > first ? s->dx : n->sample_gradient + b * in_size;
            live_gradients(n, s, value, gradient);
            weight_gradient(n, s, window, x);
            if (s > first || with_inputs) input_gradient(n, s, window, dx);
            value = x;
            gradient = dx;
        }
    }
    for (const Step *s = first; s <= last; s++) clear_padding(n, s);
    if (!with_inputs) return;
    for (int b = num_samples; b < LANES; b++)
        memset(n->sample_gradient + b * in_size, 0, sizeof(float) * (size_t)in_size);
    const float *rows[LANES];
    for (int b = 0; b < LANES; b++) rows[b] = n->sample_gradient + b * in_size;
    to_lanes(rows, first->in.gradient, 1, in_size);
}

#endif
