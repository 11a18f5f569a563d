// Forks. What a process holds of a GPU or of other ranks its forks do not have, though their memory
// says so.
#pragma once

namespace stretto {

// How many forks lie between this process and the first that asked: a process that finds another
// number than it noted is a fork of the one that noted it. A load; no call of the system.
int num_forks();

}  // namespace stretto
