"""What other frameworks do for the same rounds. These files run in an environment of their own (`benchmarks.peers`) and
import nothing from here but each other."""
