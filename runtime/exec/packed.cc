#include "runtime/exec/packed.h"

namespace fold8::exec {
Status check_packed(const graph::Graph&) { return ok_status(); }
}
