/* Embeddings: rows of a table by their numbers, averaged over a sample's positions or one after
 * another.
 *
 * Few rows of a table occur in a batch. A row without a gradient so far is not updated: without
 * decay its step would be exactly zero.
 */
#ifndef COTERIE_EMBEDDING_H
#define COTERIE_EMBEDDING_H

#include "optimizer.h"

static void embedding_forward(Network *n, const Step *s)
{
    const int64_t width = s->is.outputs, positions = s->in.channels;
    const int64_t size = rounded_up(s->out.channels);
    const float *rows[LANES];
    for (int b = 0; b < LANES; b++) {
        float *to = n->samples + b * size;
        rows[b] = to;
        if (!s->is.is_flat) memset(to, 0, sizeof(float) * (size_t)size);
        for (int64_t t = 0; t < positions; t++) {
            const float *row = n->packed + s->weights + s->place[t * LANES + b] * s->padded_row;
            if (s->is.is_flat) memcpy(to + t * width, row, sizeof(float) * (size_t)width);
            else
                for (int64_t i = 0; i < width; i += LANES) store(to + i, load(to + i) + load(row + i));
        }
        if (!s->is.is_flat)
            for (int64_t i = 0; i < width; i += LANES)
                store(to + i, load(to + i) / all((float)positions));
    }
    to_lanes(rows, s->out.value, 1, s->out.channels);
}

static void touch_row(Step *s, int32_t row)
{
    if (s->row_state[row] == 0) s->touched[s->num_touched++] = row;
    s->row_state[row] = 2;
}

/* `place` has the tokens of the group whose gradients are added. */
static void embedding_backward(Network *n, Step *s, const int32_t *place, int64_t num_samples)
{
    const int64_t width = s->is.outputs, positions = s->in.channels;
    const int64_t size = rounded_up(s->out.channels);
    const vec share = all(s->is.is_flat ? 1.0f : 1.0f / (float)positions);
    to_samples(s->out.gradient, n->samples, size, size);
    for (int64_t b = 0; b < num_samples; b++)
        for (int64_t t = 0; t < positions; t++) {
            const int32_t row = place[t * LANES + b];
            if (row == s->is.skipped_row) continue;
            const float *from = n->samples + b * size + (s->is.is_flat ? t * width : 0);
            float *to = n->gradient + s->weights + row * s->padded_row;
            touch_row(s, row);
            int64_t i = 0;
            for (; i + LANES <= width; i += LANES) store(to + i, load(to + i) + load(from + i) * share);
            for (; i < width; i++) to[i] += from[i] * share[0];
        }
}

/* Forget all gradients, before a training. */
static void clear_embedding(Network *n, Step *s)
{
    memset(n->gradient + s->weights, 0, sizeof(float) * (size_t)s->num_weights);
    memset(s->row_state, 0, sizeof(int32_t) * (size_t)s->is.count);
    s->num_touched = 0;
}

/* Update the rows that have or had a gradient, and clear the gradients for the next batch. */
static void update_embedding(Network *n, Step *s, const Update *u)
{
    if (u->decay != 0 || u->shrink != 1)
        update_range(n, u, s->weights, s->weights + s->num_weights);
    else update_rows(n, u, s->weights, s->touched, s->num_touched, s->padded_row);
    for (int64_t i = 0; i < s->num_touched; i++) {
        const int32_t row = s->touched[i];
        if (s->row_state[row] == 1) continue;
        s->row_state[row] = 1;
        memset(n->gradient + s->weights + row * s->padded_row, 0,
               sizeof(float) * (size_t)s->padded_row);
    }
}

#endif
