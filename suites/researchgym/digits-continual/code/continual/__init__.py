"""Class-incremental learning of digits without rehearsal: data, methods and the runner."""
