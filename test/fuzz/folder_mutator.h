// Bends folders of a model where it matters: values of their JSON, and the table of tensors.
#pragma once

#include <string>

#include "test/fuzz/random.h"

namespace runnel::fuzz {

// bytes: of FolderParts.
void mutate_folder(std::string& bytes, Random& random);

}  // namespace runnel::fuzz
