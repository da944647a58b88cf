/* Cross-entropy of softmax scores, binary cross-entropy, and errors of values. */
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

/* The loss of one value, in single precision: what overflows there has diverged. */
INLINE float value_loss(int32_t loss, float value, float target)
{
    const float apart = value - target, size = fabsf(apart);
    switch (loss) {
    case SQUARED_ERROR: return apart * apart;
    case HUBER: return size < 1 ? 0.5f * apart * apart : size - 0.5f;
    case ABSOLUTE_ERROR: return size;
    default: {
        /* Not `value > 0 ? value : 0`: a NaN stays visible. */
        const float positive = value < 0 ? 0 : value;
        return positive - value * target + log1pf(expf(-fabsf(value)));
    }
    }
}

INLINE float value_slope(int32_t loss, float value, float target)
{
    const float apart = value - target;
    switch (loss) {
    case SQUARED_ERROR: return 2 * apart;
    case HUBER: return apart < -1 ? -1 : apart > 1 ? 1 : apart;
    case ABSOLUTE_ERROR: return apart < 0 ? -1 : apart > 0 ? 1 : apart;
    default: return 1 / (1 + expf(-value)) - target;
    }
}

/* The mean loss of the outputs of one lane. */
INLINE float values_loss(const Network *n, const float *scores, const float *targets)
{
    float sum = 0;
    for (int64_t c = 0; c < n->num_outputs; c++)
        sum += value_loss(n->loss, scores[c * LANES], targets[c]);
    return sum / (float)n->num_outputs;
}

/* Write the gradients of `scale` x the losses into the last tensor; return the sum of losses. */
static double loss_gradient(Network *n, const Tensor *last, const void *targets,
                            const int64_t *rows, int64_t count, float scale)
{
    const int64_t outputs = n->num_outputs;
    double sum = 0;
    for (int64_t b = 0; b < count; b++) {
        const float *score = last->value + b;
        float *gradient = last->gradient + b;
        if (n->loss != CROSS_ENTROPY) {
            const float *wanted = (const float *)targets + rows[b] * outputs;
            const float share = scale / (float)outputs;
            sum += values_loss(n, score, wanted);
            for (int64_t c = 0; c < outputs; c++)
                gradient[c * LANES] =
                    value_slope(n->loss, score[c * LANES], wanted[c]) * share;
            continue;
        }
        const int64_t target = ((const int64_t *)targets)[rows[b]];
        int64_t best;
        sum += cross_entropy(n, score, target, gradient, &best);
        for (int64_t c = 0; c < outputs; c++)
            gradient[c * LANES] = (gradient[c * LANES] - (c == target)) * scale;
    }
    for (int64_t b = count; b < LANES; b++)
        for (int64_t c = 0; c < outputs; c++) last->gradient[c * LANES + b] = 0;
    return sum;
}

static void losses_of(const Network *n, const void *targets, const int64_t *rows, int64_t count,
                      float *losses, uint8_t *correct)
{
    const float *score = n->steps[n->num_steps - 1].out.value;
    for (int64_t b = 0; b < count; b++, score++) {
        if (n->loss != CROSS_ENTROPY) {
            losses[b] = values_loss(n, score, (const float *)targets + rows[b] * n->num_outputs);
            continue;
        }
        const int64_t target = ((const int64_t *)targets)[rows[b]];
        int64_t best;
        losses[b] = (float)cross_entropy(n, score, target, NULL, &best);
        if (correct) correct[b] = best == target;
    }
}

/* Copy the outputs of a group of samples, (count, num_outputs). */
static void copy_outputs(const Network *n, int64_t count, float *outputs)
{
    const float *score = n->steps[n->num_steps - 1].out.value;
    for (int64_t b = 0; b < count; b++)
        for (int64_t c = 0; c < n->num_outputs; c++)
            outputs[b * n->num_outputs + c] = score[c * LANES + b];
}

#endif
