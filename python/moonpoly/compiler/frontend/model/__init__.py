"""Reading an ONNX model, and putting it into the one form that the rest sees."""
