"""Many real peers on one computer: laid out, run, watched and gathered like a simulation."""
