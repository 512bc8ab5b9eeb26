"""Two sample sets become spectra and scores."""
