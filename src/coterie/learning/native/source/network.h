/* A network: operations on activations of eight samples at a time, in an order in which each one
 * comes after those whose outputs it reads.
 *
 * A group of eight samples goes through all operations, then the next one. Batch normalisation needs
 * the whole batch: with it, each operation handles all groups of a batch before the next one does.
 *
 * Activations lie as (row, column, channel, lane), the lane being the sample within the group, and
 * have a border of zeros as wide as the padding of the convolution that reads them. Parameters are
 * packed for the kernels: a convolution's as (output, kernel row, kernel column x channel), a
 * linear layer's as (output, input), both with rows padded by zeros to whole vectors.
 */
#ifndef COTERIE_NETWORK_H
#define COTERIE_NETWORK_H

#include "layouts.h"

enum Kind {
    CONVOLUTION = 1, LINEAR, MAX_POOL, AVERAGE_POOL, RELU, DROPOUT,
    TANH, SIGMOID, GELU, GELU_TANH, LEAKY_RELU, SILU,
    BATCH_NORM, GROUP_NORM, LAYER_NORM, EMBEDDING, ADD, LAST_KIND = ADD
};
enum Loss { CROSS_ENTROPY = 1, SQUARED_ERROR, BINARY_CROSS_ENTROPY, HUBER, ABSOLUTE_ERROR };
enum Optimizer { SGD = 1, ADAM, ADAMW };

/* An operation of a user's network; the same fields in the same order as in library.py. */
typedef struct {
    int32_t kind;
    int32_t outputs;               /* channels of a convolution, width of a linear layer */
    int32_t kernel[2], stride[2], padding[2];
    int32_t relu;                  /* followed by a ReLU */
    int32_t pool;                  /* a convolution followed by 2 x 2 max-pooling: 2; otherwise 1 */
    int32_t count_padding;         /* average pooling divides by the whole window */
    int32_t layer;                 /* counts the operations that have parameters */
    int32_t whole_channels;        /* dropout drops channels of a sample, not single values */
    float rate;                    /* share of values dropped */
    int64_t weight, bias;          /* where they start in the model's vector; -1: none */
    int32_t source, other;         /* which output is read: of so many steps before; `other`, for
                                    * additions: the second one; one before the first is the input */
    int32_t count;                 /* groups of a group normalisation; rows of an embedding's table */
    int32_t skipped_row;           /* row of the table without a gradient; -1: none */
    int32_t is_flat;               /* normalise each value of a sample by itself, not by channel;
                                    * an embedding: keep all positions, do not average them */
    float epsilon, momentum;       /* of a normalisation, and of its running statistics */
    float slope;                   /* of a leaky ReLU */
    int64_t mean, variance;        /* running statistics in the model's vector */
} Operation;

typedef struct {
    int32_t optimizer;
    int32_t batch_size;
    float learning_rate, momentum, weight_decay, beta1, beta2, epsilon;
} Training;

typedef struct {
    int64_t height, width, channels, pad_height, pad_width;
    float *value, *gradient;       /* (height + 2 pad, width + 2 pad, channels, 8) */
} Tensor;

typedef struct {
    Operation is;
    Tensor in, out;
    Tensor other;                  /* an addition's second input */
    int32_t source, second;        /* the steps that in and other come from; -1: the network's input */
    int32_t adds, second_adds;     /* whether a later step has written the gradient of in, of other */
    int32_t has_gradient;          /* whether the gradient of its output is needed */
    int32_t is_dense;              /* a convolution whose backward pass skips no zeros */
    int64_t from;                  /* where a convolution's window begins in a wider border */
    int64_t full[2], skipped[2];   /* a kernel's size in torch, and how much of it is left out */
    int64_t running;               /* packed running means; then running variances */
    float *statistics;             /* of a normalisation: means, then one by standard deviations */
    float *flipped;                /* a dense convolution's kernels by input channel */
    int32_t *row_state;            /* an embedding: 1 for rows that had a gradient, 2 in this batch */
    int32_t *touched;              /* the rows that had a gradient in this training */
    int64_t num_touched;
    int64_t num_windows;           /* bytes of one group's `window` */
    int64_t row, padded_row;       /* a kernel row, or a linear layer's inputs; in whole vectors */
    int64_t weights, biases;       /* offsets into the packed vector */
    int64_t num_weights;           /* packed, with padding */
    int32_t *place;                /* where each maximum was; which values dropout kept; or tokens */
    /* A convolution's: */
    uint8_t *window, *windows;     /* place of each maximum in its window (position, channel, lane);
                                    * and by sample (lane, position, channel) */
    int32_t *bases;                /* where the input of each position begins */
    float *inputs;                 /* inputs, sample by sample */
    float *dx;                     /* gradient of the inputs of one sample */
    float *kernels;                /* transformed, where winograd.h needs them */
    uint64_t stream;               /* dropout: its own random numbers */
} Step;

typedef struct Network {
    int32_t num_steps, loss, num_outputs;
    int32_t is_chain;              /* each step reads the one before */
    int32_t is_plain;              /* a chain of the first kinds, up to dropout */
    int32_t whole_batch;           /* has batch normalisation */
    int32_t leaves_out;            /* weights without a gradient need no update */
    int64_t num_groups;            /* groups of eight samples that are kept at a time */
    int32_t first_layer;           /* of the training at hand */
    int64_t input[3];              /* channels, height, width */
    Tensor first;                  /* the input in lanes */
    int64_t num_packed;
    Step *steps;
    float *packed, *gradient, *first_moment, *second_moment;
    /* Scratch for one convolution or linear layer at a time. */
    float *tiles, *products;       /* of four pooling windows; see winograd.h */
    float *tile_sums;              /* of the gradients of transformed kernels */
    float *samples;                /* inputs of a linear layer, sample by sample */
    float *inputs;                 /* of a dense convolution, sample by sample */
    float *values, *gradients;     /* of the last of several convolutions, sample by sample */
    float *sample_gradient;        /* of the inputs of the first of them, sample by sample */
    float *live;                   /* gradients of one sample, zero where the ReLU is dead */
    float *spare;                  /* a gradient that is added to another one */
    float *bordered;               /* a gradient within a border of zeros */
    float *spread;                 /* values of each feature of a batch normalisation, in all lanes */
    double *sums;                  /* of each feature of a batch normalisation: two */
    float *list_values;
    int32_t *list_offsets;
    void **blocks;                 /* everything that was allocated */
    int64_t num_blocks, num_reserved;
} Network;

/* One optimiser step's constants. */
typedef struct {
    int32_t optimizer;
    float learning_rate, momentum, epsilon;
    float beta2, rest1, rest2;     /* rest = 1 - beta */
    float decay;                   /* added to the gradient: decay x parameter */
    float shrink;                  /* parameters are multiplied by it first (AdamW) */
    float step_size, correction;   /* Adam's bias corrections */
} Update;

INLINE int64_t padded_width(const Tensor *t) { return t->width + 2 * t->pad_width; }
INLINE int64_t padded_height(const Tensor *t) { return t->height + 2 * t->pad_height; }
INLINE int64_t num_values(const Tensor *t)
{
    return padded_height(t) * padded_width(t) * t->channels;
}
/* Where the values of a position begin, counted in values, not lanes. */
INLINE int64_t place_of(const Tensor *t, int64_t y, int64_t x)
{
    return ((y + t->pad_height) * padded_width(t) + x + t->pad_width) * t->channels;
}

/* The values from one sample to the next: not a power of two, or all eight would share the same
 * places of a cache. */
INLINE int64_t sample_size(const Tensor *t) { return rounded_up(num_values(t)) + 2 * LANES; }

INLINE int64_t num_groups_of(int64_t count) { return (count + LANES - 1) / LANES; }
/* How many of the eight lanes of a group hold samples. */
INLINE int64_t lanes_used(int64_t count, int64_t group)
{
    const int64_t left = count - group * LANES;
    return left < LANES ? left : LANES;
}

INLINE Tensor tensor_at(Tensor t, int64_t group)
{
    const int64_t apart = group * num_values(&t) * LANES;
    if (t.value) t.value += apart;
    if (t.gradient) t.gradient += apart;
    return t;
}

/* A step as it is for one of the groups of a batch. */
INLINE Step step_at(const Step *s, int64_t group)
{
    Step here = *s;
    here.in = tensor_at(s->in, group);
    here.out = tensor_at(s->out, group);
    here.other = tensor_at(s->other, group);
    if (s->place) here.place += group * num_values(s->is.kind == EMBEDDING ? &s->in : &s->out) * LANES;
    if (s->window) here.window += group * s->num_windows;
    return here;
}

#endif
