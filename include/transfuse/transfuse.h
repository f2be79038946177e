// Transfuse: parse or build a graph, rewrite it, plan it, compile it, run it on raw pointers.
#pragma once

#include "transfuse/algebra.h"
#include "transfuse/engine.h"
#include "transfuse/error.h"
#include "transfuse/graph.h"
#include "transfuse/lattice.h"
#include "transfuse/plan.h"
#include "transfuse/tensor.h"
