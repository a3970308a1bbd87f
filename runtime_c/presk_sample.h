/* presk_sample.h: one token from a row of logits; docs/generation.md defines it to the last bit. */
#ifndef PRESK_SAMPLE_H
#define PRESK_SAMPLE_H

#include "presk_rt.h"

/* How a token is drawn. {1, 1, 0, 1, 0} draws from the plain softmax. */
typedef struct presk_sampling {
    double temperature; /* finite, >= 0; 0 takes the largest logit */
    double top_p;       /* in [0, 1]; 1: off */
    double min_p;       /* in [0, 1]; 0: off */
    double penalty;     /* finite, > 0; 1: off. Of tokens that the context has already */
    int64_t top_k;      /* >= 0; 0: off */
} presk_sampling;

/* False, with E1205, where a field is out of its range or NaN. */
bool presk_sampling_check(const presk_sampling *s, presk_error *e);

/* Logits x[0 .. n-1] of tokens that are among seen[0 .. count-1] become smaller: positive ones are divided by the
 * penalty, others multiplied, each once. Tokens outside [0, n) are passed over. `work` has room for n numbers. */
void presk_penalize(double *x, int64_t n, const int64_t *seen, int64_t count, double penalty, int64_t *work);

/* The token drawn with the uniform number u in [0, 1) from logits x[0 .. n-1]: an index, or -1 where no token can be
 * drawn: n is 0, a logit is NaN, or all are -infinity. x is overwritten; `work` has room for n numbers. */
int64_t presk_sample(const presk_sampling *s, double u, double *x, int64_t n, int64_t *work);

#endif /* PRESK_SAMPLE_H */
