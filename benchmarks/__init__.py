"""Side-by-side measurements that anyone can run; what they gave here is in README.md."""
