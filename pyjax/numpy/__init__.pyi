from pyjax.numpy._public import *
