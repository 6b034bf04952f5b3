"""The devices, a room each.  They share only the waist."""
