// What cuBLAS says when it does not do what it was asked.
#pragma once

namespace stretto::cuda {

// Throws SystemError naming `what` was tried and what cuBLAS's status means; 0 is success.
void check_cublas(int status, const char* what);

}  // namespace stretto::cuda
