/* The activations of layers that are not trained: computed once, not in each epoch.
 *
 * The activations of a sample do not depend on its lane or on the other samples of its group, so
 * those of the first epoch have the same bits as those of the next. Dropout is random, and not kept.
 */
#ifndef COTERIE_FROZEN_H
#define COTERIE_FROZEN_H

#include <stdlib.h>

#include "network.h"

typedef struct {
    int64_t stride;                /* values kept of a sample, in whole vectors */
    int64_t num_kept, room;        /* samples */
    int32_t *slots;                /* (num_rows) where each row's values are, counted from 1; 0: nowhere */
    float *values;                 /* (room, stride), and room for a group's empty lanes */
} Frozen;

static void release_frozen(Frozen *f)
{
    free(f->slots);
    free(f->values);
}

/* Allocate memory for `num_samples` inputs of step `first`. Without memory nothing is kept; the
 * results are the same. */
static Frozen reserve_frozen(const Network *n, int32_t first, int64_t num_rows, int64_t num_samples)
{
    Frozen f = {0};
    if (num_samples == 0 || first == 0 || first >= n->num_steps) return f;
    /* Later steps may read more than one tensor, and a batch's statistics change with the batch. */
    if (!n->is_chain || n->whole_batch) return f;
    for (int32_t i = 0; i < first; i++)
        if (n->steps[i].is.kind == DROPOUT) return f;
    f.stride = rounded_up(num_values(&n->steps[first].in));
    f.slots = calloc((size_t)num_rows, sizeof(int32_t));
    f.values = malloc(sizeof(float) * (size_t)(f.stride * (num_samples + LANES)));
    if (!f.slots || !f.values) {
        release_frozen(&f);
        return (Frozen){0};
    }
    f.room = num_samples;
    return f;
}

/* Keep the activations of a group of `count` rows, if there is memory. */
static void keep_frozen(Frozen *f, const Tensor *in, const int64_t *rows, int64_t count)
{
    if (f->num_kept + count > f->room) return;
    to_samples(in->value, f->values + f->num_kept * f->stride, f->stride, f->stride);
    for (int64_t b = 0; b < count; b++) f->slots[rows[b]] = (int32_t)++f->num_kept;
}

/* Bring kept values into lanes; return 0 if a row has none. Lanes beyond the last
 * sample repeat the first one. */
static int recall_frozen(const Frozen *f, const Tensor *in, const int64_t *rows, int64_t count)
{
    const float *from[LANES];
    if (!f->room) return 0;
    for (int b = 0; b < LANES; b++) {
        const int32_t slot = f->slots[rows[b < count ? b : 0]];
        if (!slot) return 0;
        from[b] = f->values + (slot - 1) * f->stride;
    }
    to_lanes(from, in->value, 1, num_values(in));
    return 1;
}

#endif
