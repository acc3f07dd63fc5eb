// Script of a live page: takes the figures and the data of the charts each second, and shows the report in the end.
{
  const live = document.getElementById("live"), source = new EventSource("events");
  source.addEventListener("second", ({ data }) => {
    if (document.hidden) return;
    const next = JSON.parse(data);
    if (next.form !== live.dataset.form) return location.reload();
    document.getElementById("outcome").outerHTML = next.hero;
    crawlmark.setData(next.data, next.totals);
  });
  source.addEventListener("end", () => {
    source.close();
    location.replace("report");
  });
}
