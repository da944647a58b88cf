"""Many real peers on one computer: started, supervised and recorded like a simulation."""
