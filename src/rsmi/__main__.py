"""`python -m rsmi`."""

from rsmi.app.cli import main

if __name__ == "__main__":
    main()
