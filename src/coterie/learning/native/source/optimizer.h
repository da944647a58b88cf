/* The optimisers, with torch's formulas, on whole vectors of parameters. */
#ifndef COTERIE_OPTIMIZER_H
#define COTERIE_OPTIMIZER_H

#include "network.h"
#include "wide_vectors.h"

/* How gradients are used. Each has separate code, and so the same rounding wherever it is inlined. */
enum Use { PLAIN_ADAM, SHRINKING, GENERAL, ADD_GRADIENT };

INLINE int use_of(const Update *u)
{
    if (u->optimizer == ADAM && u->decay == 0) return PLAIN_ADAM;
    return u->shrink != 1 ? SHRINKING : GENERAL;
}

/* Call DO with a constant for how gradients are used. */
#define FOR_USE(U, DO)                                                                           \
    switch (use_of(U)) {                                                                         \
    case PLAIN_ADAM: DO(PLAIN_ADAM); break;                                                      \
    case SHRINKING: DO(SHRINKING); break;                                                        \
    default: DO(GENERAL); break;                                                                 \
    }

#include "use_narrow.h"
#include "update_steps.h"
#include "end_use.h"
#if HAS_WIDE
#include "use_wide.h"
#include "update_steps.h"
#include "end_use.h"
#endif

/* Update some of the rows of `length` values that begin at `start`, a multiple of eight. */
static void update_rows(Network *n, const Update *u, int64_t start, const int32_t *rows,
                        int64_t count, int64_t length)
{
#if HAS_WIDE
    if (has_wide) {
        update_wide(n, u, start, rows, count, length);
        return;
    }
#endif
    update_narrow(n, u, start, rows, count, length);
}

static void update_range(Network *n, const Update *u, int64_t start, int64_t stop)
{
    update_rows(n, u, start, NULL, 1, stop - start);
}

/* The constants of step number `step`, from 1. */
static Update update_at(const Training *t, int64_t step)
{
    Update u = {.optimizer = t->optimizer,
                .learning_rate = t->learning_rate,
                .momentum = t->momentum,
                .beta2 = t->beta2,
                .rest1 = 1 - t->beta1,
                .rest2 = 1 - t->beta2,
                .epsilon = t->epsilon,
                .decay = t->optimizer == ADAMW ? 0 : t->weight_decay,
                .shrink = t->optimizer == ADAMW ? 1 - t->learning_rate * t->weight_decay : 1};
    if (t->optimizer != SGD) {
        u.step_size = (float)(t->learning_rate / (1 - pow(t->beta1, (double)step)));
        u.correction = (float)(1 / sqrt(1 - pow(t->beta2, (double)step)));
    }
    return u;
}

#endif
