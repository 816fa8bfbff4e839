"""`wakeful top`: the queue live on a terminal."""
