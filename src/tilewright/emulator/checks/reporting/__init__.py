"""What the checks report: the rules of the PTX manual, reports that one is broken, and waivers of reports."""
