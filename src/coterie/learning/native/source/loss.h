/* Cross-entropy of softmax scores, and squared error of a single output. */
#ifndef COTERIE_LOSS_H
#define COTERIE_LOSS_H

#include "network.h"

/* The loss of one lane; `shares` (num_outputs) become softmax values unless it is NULL. */
INLINE double cross_entropy(const Network *n, const float *scores, int64_t target, float *shares,
                            int64_t *best)
{
    float highest = scores[0];
    *best = 0;
    for (int64_t c = 1; c < n->num_outputs; c++)
        if (scores[c * LANES] > highest) {
            highest = scores[c * LANES];
            *best = c;
        }
    float sum = 0;
    for (int64_t c = 0; c < n->num_outputs; c++) {
        const float e = expf(scores[c * LANES] - highest);
        sum += e;
        if (shares) shares[c * LANES] = e;
    }
    if (shares)
        for (int64_t c = 0; c < n->num_outputs; c++) shares[c * LANES] /= sum;
    return (double)logf(sum) + (double)highest - (double)scores[target * LANES];
}

/* Write the gradients of `scale` x the losses into the last tensor; return the sum of losses. */
static double loss_gradient(Network *n, const void *targets, const int64_t *rows, int64_t count,
                            float scale)
{
    const Tensor *last = &n->steps[n->num_steps - 1].out;
    double sum = 0;
    for (int64_t b = 0; b < count; b++) {
        const float *score = last->value + b;
        float *gradient = last->gradient + b;
        if (n->loss == SQUARED_ERROR) {
            const float apart = *score - ((const float *)targets)[rows[b]];
            sum += apart * apart; /* in single precision: what overflows there has diverged */
            *gradient = 2 * apart * scale;
            continue;
        }
        const int64_t target = ((const int64_t *)targets)[rows[b]];
        int64_t best;
        sum += cross_entropy(n, score, target, gradient, &best);
        for (int64_t c = 0; c < n->num_outputs; c++)
            gradient[c * LANES] = (gradient[c * LANES] - (c == target)) * scale;
    }
    for (int64_t b = count; b < LANES; b++)
        for (int64_t c = 0; c < n->num_outputs; c++) last->gradient[c * LANES + b] = 0;
    return sum;
}

static void losses_of(const Network *n, const void *targets, const int64_t *rows, int64_t count,
                      float *losses, uint8_t *correct)
{
    const float *score = n->steps[n->num_steps - 1].out.value;
    for (int64_t b = 0; b < count; b++, score++) {
        if (n->loss == SQUARED_ERROR) {
            const float apart = *score - ((const float *)targets)[rows[b]];
            losses[b] = apart * apart;
            continue;
        }
        const int64_t target = ((const int64_t *)targets)[rows[b]];
        int64_t best;
        losses[b] = (float)cross_entropy(n, score, target, NULL, &best);
        if (correct) correct[b] = best == target;
    }
}

#endif
