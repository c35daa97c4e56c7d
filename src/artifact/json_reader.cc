/*!
 * \file artifact/json_reader.cc
 */
#include "artifact/json_reader.h"

#include <tvm/ffi/error.h>

#include <optional>
#include <utility>

namespace moonpoly {

namespace ffi = tvm::ffi;

JsonReader JsonReader::Parse(const ffi::String& text, const std::string& where) {
  ffi::String error;
  ffi::json::Value value = ffi::json::Parse(text, &error);
  if (error.size() != 0) {
    TVM_FFI_THROW(ValueError) << where << " is not JSON (truncated?): " << error;
  }
  std::optional<ffi::json::Object> object = value.as<ffi::json::Object>();
  if (!object.has_value()) {
    TVM_FFI_THROW(ValueError) << where << " must be a JSON object, got " << value.GetTypeKey();
  }
  return JsonReader(*std::move(object), where);
}

void JsonReader::Fail(const char* key, const char* expected) const {
  auto it = object_.find(ffi::String(key));
  if (it == object_.end()) {
    TVM_FFI_THROW(ValueError) << where_ << " lacks \"" << key << "\", expected " << expected;
  }
  TVM_FFI_THROW(ValueError) << where_ << "." << key << " must be " << expected << ", got "
                            << ffi::json::Stringify((*it).second);
}

ffi::Any JsonReader::Get(const char* key) const {
  auto it = object_.find(ffi::String(key));
  return it == object_.end() ? ffi::Any(nullptr) : (*it).second;
}

bool JsonReader::Has(const char* key) const { return Get(key) != nullptr; }

std::string JsonReader::GetString(const char* key) const {
  std::optional<ffi::String> value = Get(key).as<ffi::String>();
  if (!value.has_value()) Fail(key, "a string");
  return std::string(*value);
}

int64_t JsonReader::GetInt(const char* key) const {
  std::optional<int64_t> value = Get(key).as<int64_t>();
  if (!value.has_value()) Fail(key, "an integer");
  return *value;
}

double JsonReader::GetNumber(const char* key) const {
  std::optional<double> value = Get(key).try_cast<double>();
  if (!value.has_value()) Fail(key, "a number");
  return *value;
}

bool JsonReader::GetBool(const char* key) const {
  std::optional<bool> value = Get(key).as<bool>();
  if (!value.has_value()) Fail(key, "true or false");
  return *value;
}

JsonReader JsonReader::GetObject(const char* key) const {
  std::optional<ffi::json::Object> value = Get(key).as<ffi::json::Object>();
  if (!value.has_value()) Fail(key, "an object");
  return JsonReader(*std::move(value), where_ + "." + key);
}

ffi::json::Array JsonReader::GetArray(const char* key) const {
  std::optional<ffi::json::Array> value = Get(key).as<ffi::json::Array>();
  if (!value.has_value()) Fail(key, "an array");
  return *std::move(value);
}

std::vector<JsonReader> JsonReader::GetObjects(const char* key) const {
  std::vector<JsonReader> out;
  for (const ffi::Any& item : GetArray(key)) {
    std::optional<ffi::json::Object> object = item.as<ffi::json::Object>();
    if (!object.has_value()) Fail(key, "an array of objects");
    out.emplace_back(*std::move(object),
                     where_ + "." + key + "[" + std::to_string(out.size()) + "]");
  }
  return out;
}

std::vector<int64_t> JsonReader::GetInts(const char* key) const {
  std::vector<int64_t> out;
  for (const ffi::Any& item : GetArray(key)) {
    std::optional<int64_t> value = item.as<int64_t>();
    if (!value.has_value()) Fail(key, "an array of integers");
    out.push_back(*value);
  }
  return out;
}

std::vector<float> JsonReader::GetFloats(const char* key) const {
  std::vector<float> out;
  for (const ffi::Any& item : GetArray(key)) {
    std::optional<double> value = item.try_cast<double>();
    if (!value.has_value()) Fail(key, "an array of numbers");
    out.push_back(static_cast<float>(*value));
  }
  return out;
}

std::vector<std::string> JsonReader::GetStrings(const char* key) const {
  std::vector<std::string> out;
  for (const ffi::Any& item : GetArray(key)) {
    std::optional<ffi::String> value = item.as<ffi::String>();
    if (!value.has_value()) Fail(key, "an array of strings");
    out.emplace_back(*value);
  }
  return out;
}

std::vector<std::string> JsonReader::Keys() const {
  std::vector<std::string> out;
  for (const auto& [key, value] : object_) out.emplace_back(key.cast<ffi::String>());
  return out;
}

}  // namespace moonpoly
