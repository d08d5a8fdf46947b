"""The quickest of many ways to cut a product: the model's, corrected by measured launches."""
