"""Assessments become figures and a page. Nothing is estimated here: what is drawn is read off the assessment."""
