/* presk_late.h: what the functions of late products call: sums of a tile's rows of which each begins one term later than
 * the row before. Rows and panels as in presk_product.h. */
#ifndef PRESK_LATE_H
#define PRESK_LATE_H

#include "presk_product.h"

#define LATE presk_late_f32
#define LATE_WHOLE presk_late_whole_f32
#define LATE_VECTOR presk_f32_vector
#define LATE_ELEMENT float
#define LATE_COLUMNS PRESK_COLUMNS_F32
#include "presk_late_tile.h"

#define LATE presk_late_f64
#define LATE_WHOLE presk_late_whole_f64
#define LATE_VECTOR presk_f64_vector
#define LATE_ELEMENT double
#define LATE_COLUMNS PRESK_COLUMNS_F64
#include "presk_late_tile.h"

#endif /* PRESK_LATE_H */
