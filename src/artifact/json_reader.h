/*!
 * \file artifact/json_reader.h
 * \brief Typed access to a parsed JSON object; what is missing or of another type is named.
 */
#ifndef MOONPOLY_ARTIFACT_JSON_READER_H_
#define MOONPOLY_ARTIFACT_JSON_READER_H_

#include <tvm/ffi/extra/json.h>
#include <tvm/ffi/string.h>

#include <cstdint>
#include <string>
#include <vector>

namespace moonpoly {

/*! \brief A view of one JSON object; `where` names it in errors, such as "manifest.kernels[3]". */
class JsonReader {
 public:
  JsonReader(tvm::ffi::json::Object object, std::string where)
      : object_(std::move(object)), where_(std::move(where)) {}

  /*! \brief Parse `text`, which must hold one JSON object. Throws ValueError. */
  static JsonReader Parse(const tvm::ffi::String& text, const std::string& where);

  /*! \brief Whether the key is there and not null. */
  bool Has(const char* key) const;
  std::string GetString(const char* key) const;
  int64_t GetInt(const char* key) const;
  double GetNumber(const char* key) const;
  bool GetBool(const char* key) const;
  JsonReader GetObject(const char* key) const;
  /*! \brief The objects in an array. */
  std::vector<JsonReader> GetObjects(const char* key) const;
  std::vector<int64_t> GetInts(const char* key) const;
  std::vector<float> GetFloats(const char* key) const;
  std::vector<std::string> GetStrings(const char* key) const;
  /*! \brief The names in an object. */
  std::vector<std::string> Keys() const;

  const std::string& where() const { return where_; }

 private:
  tvm::ffi::Any Get(const char* key) const;
  tvm::ffi::json::Array GetArray(const char* key) const;
  [[noreturn]] void Fail(const char* key, const char* expected) const;

  tvm::ffi::json::Object object_;
  std::string where_;
};

}  // namespace moonpoly

#endif  // MOONPOLY_ARTIFACT_JSON_READER_H_
