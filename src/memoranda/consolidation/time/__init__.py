"""Times named in a text: days, future instants, recurrences and timetables."""
