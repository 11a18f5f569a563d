// Which versions of what is found at run time the process has.
#pragma once

#include <string>

namespace stretto::cuda {

// "CUDA 13.0, kernel module 580.65.06": what the driver serves, and its own version where Linux
// says it. Throws SystemError(why_no_driver()).
std::string driver_version();
// "cuBLAS 130100"; "no cuBLAS" where there is none.
std::string cublas_version();

}  // namespace stretto::cuda
