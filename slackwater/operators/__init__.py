"""What each plan node does with the elements on its arcs; one operator a file, written against `Page`."""
