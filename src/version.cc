/*!
 * \file version.cc
 * \brief The version of this library, so that Python can refuse a library of another build.
 */
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/string.h>

namespace moonpoly {

static tvm::ffi::String Version() { return MOONPOLY_VERSION; }

TVM_FFI_STATIC_INIT_BLOCK() { tvm::ffi::reflection::GlobalDef().def("moonpoly.version", Version); }

}  // namespace moonpoly
