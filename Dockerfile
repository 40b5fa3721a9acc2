# docker build -t takeback .
# docker build -t takeback --build-arg EXTRAS=dramatiq,embedded .

FROM python:3.13-slim AS build
WORKDIR /src
COPY requirements.lock ./
# The lock's versions, as constraints: the image gets only what it asks for, in the versions that were tested.
RUN sed -nE 's/^([A-Za-z0-9._-]+==[^ ;]+).*/\1/p' requirements.lock > /constraints.txt
COPY . .
# dramatiq: one image for the worker, the ticker and the actors.
ARG EXTRAS="dramatiq"
RUN python -m venv /app \
    && /app/bin/pip install --no-cache-dir --constraint /constraints.txt ".${EXTRAS:+[$EXTRAS]}" \
    && /app/bin/pip uninstall --yes pip

FROM python:3.13-slim
ENV PATH=/app/bin:$PATH PYTHONUNBUFFERED=1
RUN useradd --system --uid 10001 --create-home takeback
COPY --from=build /app /app
USER takeback
WORKDIR /home/takeback
ENTRYPOINT ["takeback"]
CMD ["--help"]
