"""UCI regression: RMSE and log-likelihood on the standard splits."""
