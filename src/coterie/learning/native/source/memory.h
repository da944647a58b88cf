/* The memory of a network, and how large it may be. */
#ifndef COTERIE_MEMORY_H
#define COTERIE_MEMORY_H

#include <stdlib.h>

#include "network.h"

#define LARGEST_SIDE (1 << 20)
#define LARGEST_TENSOR (1 << 28)   /* values of one sample's activations or of one layer */
#define LARGEST_TOTAL (1 << 29)    /* values of everything together: 2 GiB for each thread */
#define ALIGNMENT 64
#define SLACK 64                   /* vectors may be read and zeros written past the end */

static void release(Network *n)
{
    if (!n) return;
    for (int64_t i = 0; i < n->num_blocks; i++) free(n->blocks[i]);
    free(n->blocks);
    free(n->steps);
    free(n);
}

/* Zeroed memory for `count` floats or ints, with slack on both sides; NULL when it is too much. */
static void *reserve(Network *n, int64_t count)
{
    n->num_reserved += count;
    if (n->num_reserved > LARGEST_TOTAL) return NULL;
    void **blocks = realloc(n->blocks, sizeof(void *) * (size_t)(n->num_blocks + 1));
    if (!blocks) return NULL;
    n->blocks = blocks;
    const size_t bytes = sizeof(float) * (size_t)(rounded_up(count) + 2 * SLACK);
    char *block = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    if (!block) return NULL;
    memset(block, 0, bytes);
    n->blocks[n->num_blocks++] = block;
    return block + sizeof(float) * SLACK;
}

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static int in_range(int64_t value, int64_t least) { return value >= least && value <= LARGEST_SIDE; }

/* Whether a x b x c is at most LARGEST_TENSOR, without overflow. */
static int small_product(int64_t a, int64_t b, int64_t c)
{
    int64_t ab, abc;
    return !__builtin_mul_overflow(a, b, &ab) && !__builtin_mul_overflow(ab, c, &abc) &&
           abc <= LARGEST_TENSOR;
}

#endif
