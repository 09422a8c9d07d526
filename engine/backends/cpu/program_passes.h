// The passes over a program's layers together, step by step of its making, in this order.
#pragma once

#include "engine/backends/cpu/kernels/isa.h"
#include "engine/backends/cpu/program.h"

namespace upscaled::cpu {

// Makes one layer of each gate, (a + b) * (sigmoid(a) * factor + offset). Its parts have no kernel
// and no reader any more. `source`: the program's subject, with the weights.
void FuseGates(const Network& source, Isa isa, Program& program);

// Sets all that follows from the layers' kernels and connections.
void Connect(Program& program);

// Chooses the products that become views, and gives their readers scratch for factors.
void ChooseScaledViews(Program& program);

// Staggers the blocks of layers that follow each other. A reader's blocks read a pixel more on each
// side; if its input's blocks began at the same positions, that would be a whole block more on each
// side. Along x it is half a block, along y one row below and the rest of the block above.
void StaggerBlocks(Program& program);

// Chooses the layers that tiles keep between the passes over an image. For cunet, passes then take
// 13 % more multiplications than a network without poolings, and 1 KB per source pixel. Without a
// cache they take 2.9 times as many.
void ChooseCached(Program& program);

// Cuts a deep network behind layers that leave little to later ones, less than the next would; one
// of many global poolings behind each pooled layer, and has all kept that later passes read.
// Without this, RealPLKSR's 28 poolings would take 14 times the work. `always`: any network with a
// layer to cut behind.
void ChooseCuts(bool always, Program& program);

// Has parts of concatenations written where these want them. From the last one on, so that one that
// is a part of another takes its own parts along.
void PlaceParts(Program& program);

}  // namespace upscaled::cpu
