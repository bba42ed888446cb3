# rejoinder in a container, without root: docker run --rm -v "$PWD:/project" rejoinder run
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY scripts/package_metadata.py scripts/
COPY src src
RUN python -m venv /opt/rejoinder \
 && /opt/rejoinder/bin/python -m pip install --no-cache-dir --disable-pip-version-check -c constraints.txt ".[mcp,view]"

FROM python:3.13-slim
COPY --from=build /opt/rejoinder /opt/rejoinder
ENV PATH=/opt/rejoinder/bin:$PATH
RUN useradd --create-home --uid 1000 rejoinder
USER rejoinder
WORKDIR /project
ENTRYPOINT ["rejoinder"]
CMD ["--help"]
