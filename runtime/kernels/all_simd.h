// The vector bodies of all kernels. Include only from targets/*.cc.
#pragma once

#include "runtime/kernels/arch.h"
