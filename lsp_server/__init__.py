"""The language server: editor requests in, suggestions out. No tensors here."""
