/* The optimisers, with torch's formulas, on eight parameters at a time. */
#ifndef COTERIE_OPTIMIZER_H
#define COTERIE_OPTIMIZER_H

#include "network.h"

/* Adam without weight decay, as in the papers, has separate code: `plain_adam` is constant. */
INLINE int is_plain_adam(const Update *u) { return u->optimizer == ADAM && u->decay == 0; }

INLINE void update_vector(const int plain_adam, const Update *u, float *parameter, float *first,
                          float *second, vec g)
{
    vec p = load(parameter);
    if (!plain_adam) {
        if (u->decay != 0) g += all(u->decay) * p;
        if (u->optimizer == SGD) {
            if (u->momentum != 0) {
                g += load(first) * all(u->momentum);
                store(first, g);
            }
            store(parameter, p - all(u->learning_rate) * g);
            return;
        }
        if (u->shrink != 1) p *= all(u->shrink);
    }
    vec m = load(first), v = load(second);
    m += all(u->rest1) * (g - m);
    v = v * all(u->beta2) + all(u->rest2) * g * g;
    store(first, m);
    store(second, v);
    const vec root = square_root(v) * all(u->correction) + all(u->epsilon);
    store(parameter, p - all(u->step_size) * m / root);
}

INLINE void update_each(const int plain_adam, Network *n, const Update *u, int64_t start,
                        int64_t stop)
{
    for (int64_t i = start; i < stop; i += LANES)
        update_vector(plain_adam, u, n->packed + i, n->first_moment + i, n->second_moment + i,
                      load(n->gradient + i));
}

static void update_range(Network *n, const Update *update, int64_t start, int64_t stop)
{
    const Update u = *update; /* a copy, so that stores cannot change it and it stays in registers */
    if (is_plain_adam(&u)) update_each(1, n, &u, start, stop);
    else update_each(0, n, &u, start, stop);
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
