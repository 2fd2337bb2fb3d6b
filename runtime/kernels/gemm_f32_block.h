// Block sizes of the f32 matrix kernels, shared by their scratch sizes and vector bodies. They
// order the work and never touch a result.
#pragma once

#include <cstddef>

#include "runtime/kernels/pack_f32.h"

namespace fold8::kernels {

// A block of outputs whose chains are built up in memory before the epilogue runs. Its rows of x
// stay in the L2 cache while all panels pass by, and the weights of one depth step while all its
// rows pass by.
inline constexpr std::size_t kBlockRowsF32 = 48;
inline constexpr std::size_t kBlockPanelsF32 = 4;  // of a block with more than one row
inline constexpr std::size_t kMaxPanelsF32 = 8;    // of a block with a single row
inline constexpr std::size_t kBlockFloatsF32 = kBlockRowsF32 * kBlockPanelsF32 * kPanelF32;
inline constexpr std::size_t kBlockTilesF32 = 8;  // register tiles of a block, at most
inline constexpr std::size_t kDepthStepF32 = 256;

}  // namespace fold8::kernels
