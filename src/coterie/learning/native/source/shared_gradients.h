/* Which gradients use the same memory, in networks that are no plain chains. */
#ifndef COTERIE_SHARED_GRADIENTS_H
#define COTERIE_SHARED_GRADIENTS_H

#include "memory.h"

/* The output of a step; -1: the input of the network. */
static Tensor *output_of(Network *n, int32_t step)
{
    return step < 0 ? &n->first : &n->steps[step].out;
}

/* Memory for gradients, which several tensors use one after another. */
typedef struct {
    float *block;
    int64_t size;
    int is_free;
} Shared;

/* Take the smallest free block that is large enough, or a new one. */
static float *take_block(Network *n, Shared *blocks, int32_t *count, int64_t size)
{
    Shared *best = NULL;
    for (Shared *b = blocks; b < blocks + *count; b++)
        if (b->is_free && b->size >= size && (!best || b->size < best->size)) best = b;
    if (!best) {
        best = &blocks[(*count)++];
        *best = (Shared){reserve(n, size), size, 1};
    }
    best->is_free = 0;
    return best->block;
}

/* Give all outputs memory for their gradients. It is needed from the last step that reads an output
 * to the one that computed it: less memory in use stays in nearer caches. */
static int share_gradients(Network *n)
{
    Shared *blocks = calloc((size_t)n->num_steps + 1, sizeof(Shared));
    int32_t count = 0;
    if (!blocks) return 0;
    for (int32_t i = n->num_steps - 1; i >= 0; i--) {
        Step *s = &n->steps[i];
        Tensor *const needed[3] = {&s->out, output_of(n, s->source),
                                   s->is.kind == ADD ? output_of(n, s->second) : &s->out};
        for (int t = 0; t < 3; t++)
            if (needed[t] != &n->first && !needed[t]->gradient)
                needed[t]->gradient = take_block(
                    n, blocks, &count, num_values(needed[t]) * LANES * n->num_groups);
        for (Shared *b = blocks; b < blocks + count; b++)
            if (b->block == s->out.gradient) b->is_free = 1;
    }
    int done = 1;
    for (const Shared *b = blocks; b < blocks + count; b++) done = done && b->block;
    free(blocks);
    for (int32_t i = 0; i < n->num_steps; i++) {
        Step *s = &n->steps[i];
        s->in.gradient = output_of(n, s->source)->gradient;
        if (s->is.kind == ADD) s->other.gradient = output_of(n, s->second)->gradient;
    }
    return done;
}

#endif
